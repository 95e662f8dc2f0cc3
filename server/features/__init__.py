"""What the editor shows, as plain data in 0-based lines and code points: nothing here knows the protocol."""
