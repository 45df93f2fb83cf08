// Package acctest drives the whole provider in tests and in the demonstration: against the simulator in the same process, by
// the driver of package drive, or through a real CLI. It also says what may be left on a server when a test is over.
package acctest
