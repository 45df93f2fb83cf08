//go:build !race

package pvesim_test

// raceDetector: everything takes its time.
const raceDetector = false
