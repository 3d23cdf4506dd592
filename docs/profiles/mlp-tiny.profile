{
 "format": "profile of local work, 2",
 "model": "mlp-tiny",
 "plan": "data=2; batch over data",
 "dtype": "f32",
 "date": "2026-11-29",
 "where": {
  "processor": "Intel(R) Xeon(R) Processor",
  "cores": 2,
  "device": "cpu",
  "runtime": "torch",
  "versions": {
   "python": "3.11.7",
   "torch": "2.13.0+cpu"
  },
  "threads": 1,
  "processes": 1
 },
 "reference_seconds": 0.010077477500090026,
 "drift": 0.07859347734177492,
 "events": [
  {
   "key": "816eaf1c5e6b9fa4",
   "name": "dot_general to gt at mlp.py:36",
   "operations": 5,
   "flops": 143360,
   "moved_bytes": 114176,
   "seconds": 0.00024972133832722984,
   "spread": 0.9740663708003886,
   "samples": 5
  },
  {
   "key": "6adc174b0bbe9eb2",
   "name": "dot_general to gt at mlp.py:36",
   "operations": 5,
   "flops": 1060864,
   "moved_bytes": 185856,
   "seconds": 0.0001053585383633374,
   "spread": 0.14503204218978222,
   "samples": 5
  },
  {
   "key": "e0bf26ec37c1a98a",
   "name": "scan at models.py:79",
   "operations": 1,
   "flops": 0,
   "moved_bytes": 353280,
   "seconds": 0.00024742599998717196,
   "spread": 31.911971338763685,
   "samples": 5
  },
  {
   "key": "7f146aed515c1537",
   "name": "dot_general to div at mlp.py:42",
   "operations": 20,
   "flops": 67009,
   "moved_bytes": 34348,
   "seconds": 0.0009303750000612748,
   "spread": 3.8104140294616813,
   "samples": 5
  },
  {
   "key": "d1a2b1e92349d292",
   "name": "div to reduce_sum at models.py:113",
   "operations": 13,
   "flops": 1097,
   "moved_bytes": 12840,
   "seconds": 0.00032077070334958615,
   "spread": 0.16389346391136878,
   "samples": 5
  },
  {
   "key": "dad2fdea6156ca34",
   "name": "dot_general to transpose at mlp.py:42",
   "operations": 2,
   "flops": 65536,
   "moved_bytes": 29696,
   "seconds": 0.00033036800004992983,
   "spread": 23.598534221628434,
   "samples": 5
  },
  {
   "key": "b5234788de6e820a",
   "name": "dot_general at mlp.py:42",
   "operations": 1,
   "flops": 65536,
   "moved_bytes": 21504,
   "seconds": 0.00004943300018567243,
   "spread": 1.1336351544214727,
   "samples": 5
  },
  {
   "key": "d8e1695421018e25",
   "name": "broadcast_in_dim to dot_general at mlp.py:36",
   "operations": 8,
   "flops": 2105472,
   "moved_bytes": 416256,
   "seconds": 0.0002317179619552005,
   "spread": 18.2920694905091,
   "samples": 5
  },
  {
   "key": "e93cd3038c3c0f45",
   "name": "scan at models.py:79",
   "operations": 1,
   "flops": 0,
   "moved_bytes": 509440,
   "seconds": 0.00007880179620866326,
   "spread": 2.8115435437111667,
   "samples": 5
  },
  {
   "key": "adfd4fb800f102da",
   "name": "broadcast_in_dim to reduce_sum at mlp.py:36",
   "operations": 5,
   "flops": 8320,
   "moved_bytes": 88576,
   "seconds": 0.00007164573400033349,
   "spread": 0.3221160563492748,
   "samples": 5
  },
  {
   "key": "5cca1baf412dd45e",
   "name": "dot_general to transpose at mlp.py:36",
   "operations": 2,
   "flops": 131072,
   "moved_bytes": 43008,
   "seconds": 0.000058932316010375105,
   "spread": 0.19279485590428835,
   "samples": 5
  },
  {
   "key": "2b62cce69fe3bd64",
   "name": "add to mul at optimizers.py:36",
   "operations": 3,
   "flops": 129,
   "moved_bytes": 1040,
   "seconds": 0.00004658372734925953,
   "spread": 2.583618630196042,
   "samples": 5
  },
  {
   "key": "bb02e5aa293c3f39",
   "name": "mul at optimizers.py:38",
   "operations": 3,
   "flops": 2304,
   "moved_bytes": 18944,
   "seconds": 0.000023835538731571992,
   "spread": 0.19419484731468195,
   "samples": 5
  },
  {
   "key": "f6511e416c0a8922",
   "name": "mul at optimizers.py:38",
   "operations": 3,
   "flops": 4104,
   "moved_bytes": 41024,
   "seconds": 0.00001672889538218443,
   "spread": 5.84084817988777,
   "samples": 5
  },
  {
   "key": "1a9cac621549702f",
   "name": "mul at optimizers.py:38",
   "operations": 3,
   "flops": 1040,
   "moved_bytes": 8352,
   "seconds": 0.00001252202196375931,
   "spread": 0.77669621198723,
   "samples": 5
  },
  {
   "key": "5c44f0156be46e5c",
   "name": "mul at optimizers.py:38",
   "operations": 3,
   "flops": 2304,
   "moved_bytes": 22528,
   "seconds": 0.000018749021032130718,
   "spread": 0.46665083549417774,
   "samples": 5
  },
  {
   "key": "35af71d4c1310e2e",
   "name": "mul at optimizers.py:38",
   "operations": 3,
   "flops": 33280,
   "moved_bytes": 267264,
   "seconds": 0.00003828321981660231,
   "spread": 0.20676689942245746,
   "samples": 5
  },
  {
   "key": "3044b44a95a6ab85",
   "name": "mul to sub at optimizers.py:38",
   "operations": 104,
   "flops": 536576,
   "moved_bytes": 5148368,
   "seconds": 0.0011533816040192586,
   "spread": 0.4805993398074316,
   "samples": 5
  }
 ]
}
