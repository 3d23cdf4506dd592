"""What links reach before anything is calibrated, learned from other people's measurements."""
