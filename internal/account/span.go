package account

import "context"

// Tracer is told what begins, and where in the tree: the context is that of what it is a part of. It is never told a secret, a
// body, or what the server says.
type Tracer interface {
	Begin(ctx context.Context, name string, about ...Attribute) (context.Context, Span)
}

// Span is something that has begun.
type Span interface {
	// End says that it is over; failed says in a few words how it went, "" for well.
	End(failed string, about ...Attribute)
}

// Attribute is a fact about a Span: a text, or a number.
type Attribute struct {
	Key    string
	Text   string
	Number int64
	IsText bool
}

// Text is an Attribute.
func Text(key, value string) Attribute { return Attribute{Key: key, Text: value, IsText: true} }

// Number is an Attribute.
func Number(key string, value int64) Attribute { return Attribute{Key: key, Number: value} }

func finish(s Span, failed string, about ...Attribute) {
	if s != nil {
		s.End(failed, about...)
	}
}
