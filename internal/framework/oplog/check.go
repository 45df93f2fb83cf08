package oplog

import "context"

// checkKey is the key of WithCheck.
type checkKey struct{}

// WithCheck returns a context whose requests are sent, and whose commands are run on nodes, only while check returns
// nil. It is called before each try, and again when a write has its connection. A request may wait for its turn, for a
// connection or for another try, and the machine may sleep meanwhile.
func WithCheck(ctx context.Context, check func() error) context.Context {
	return context.WithValue(ctx, checkKey{}, check)
}

// Checked is the error of the context's check, nil without one.
func Checked(ctx context.Context) error {
	if check, ok := ctx.Value(checkKey{}).(func() error); ok {
		return check()
	}
	return nil
}
