// Package datasource holds the data sources. They read through pve.Reader and change nothing.
package datasource

// value returns the value behind a pointer, or the zero value.
func value[V any](p *V) V {
	if p == nil {
		var zero V
		return zero
	}
	return *p
}
