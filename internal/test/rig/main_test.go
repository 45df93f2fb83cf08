package rig

import "testing"

// TestMain adds up the power-offs of all tests.
func TestMain(m *testing.M) { Main(m) }
