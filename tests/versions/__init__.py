"""Run the tests of each adapter with the lowest and the newest version of its library that the extra allows."""
