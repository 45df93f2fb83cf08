// Package lifecycle proves what a configuration promises about one VM: disks, networks, power, HA, snapshots, moves
// and waits.
package lifecycle
