// Package conformance holds the simulator to recorded answers of a real server, and runs the acceptance cases on any
// cluster.
package conformance
