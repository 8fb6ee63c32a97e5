"""What a driver that follows another one waits for. `standing_by` has the loop and the interface of a role: the new
version of an update, a hot standby, or a witness, which only compares.
"""
