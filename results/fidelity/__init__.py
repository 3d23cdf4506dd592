"""How near calibrated prices come to measurements of others that the fit has not seen."""
