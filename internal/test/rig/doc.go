// Package rig is the common part of the acceptance tests of all packages: simulated clusters with the whole provider in front of
// them, by the driver of package terraformtest or a real CLI; the configurations of the tests; and the rules for what may be left
// on a server when a test is over. Package engine plays its sweeps on them.
package rig
