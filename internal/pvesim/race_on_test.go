//go:build race

package pvesim_test

// raceDetector: everything takes some ten times as long.
const raceDetector = true
