package oplog

import "context"

// Tracer receives the beginning of each span. The context is that of its parent span. It never receives a secret, a
// body, or a message of the server.
type Tracer interface {
	Begin(ctx context.Context, name string, about ...Attribute) (context.Context, Span)
}

// Span is an interval that has begun: an operation, a step, a request or a wait.
type Span interface {
	// End ends the span. failed is "" for a success, otherwise the failure in a few words.
	End(failed string, about ...Attribute)
}

// Attribute is a fact about a Span: a text, or a number.
type Attribute struct {
	Key    string
	Text   string
	Number int64
	IsText bool
}

// Text returns a text as an Attribute.
func Text(key, value string) Attribute { return Attribute{Key: key, Text: value, IsText: true} }

// Number returns a number as an Attribute.
func Number(key string, value int64) Attribute { return Attribute{Key: key, Number: value} }

func finish(s Span, failed string, about ...Attribute) {
	if s != nil {
		s.End(failed, about...)
	}
}
