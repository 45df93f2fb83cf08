package tfkit

import "time"

// The time that operations may take where the configuration's timeouts attribute does not say otherwise.
const (
	CreateTimeout = 30 * time.Minute
	ReadTimeout   = 2 * time.Minute
	UpdateTimeout = 30 * time.Minute
	DeleteTimeout = 15 * time.Minute
)

// Duration parses a duration of the configuration, "30m"; nil and what does not parse, which a validator has refused
// before, give the default.
func Duration(configured *string, byDefault time.Duration) time.Duration {
	if configured == nil {
		return byDefault
	}
	d, err := time.ParseDuration(*configured)
	if err != nil || d <= 0 {
		return byDefault
	}
	return d
}
