//go:build !race

package acctest_test

// raceDetector: everything takes its time.
const raceDetector = false
