"""The audit: what position, plate and batch alone tell, before anything is fitted."""
