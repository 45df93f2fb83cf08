// Package rig is what the acceptance tests of all packages share: simulated clusters with the whole provider in front of them, by
// the driver of package terraformtest or a real CLI; the benches of the fault sweeps; and the rules for what may be left on a
// server when a test is over.
package rig
