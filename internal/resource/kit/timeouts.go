package kit

import "time"

// The default time limits of operations, if the timeouts attribute sets no others.
const (
	CreateTimeout = 30 * time.Minute
	ReadTimeout   = 2 * time.Minute
	UpdateTimeout = 30 * time.Minute
	DeleteTimeout = 15 * time.Minute
)

// Duration parses a configured duration such as "30m". It returns the default for nil, and for a text that a validator
// has refused.
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
