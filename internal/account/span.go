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

func (o *Operation) span(ctx context.Context, name string, about ...Attribute) (context.Context, Span) {
	if o.config.Tracer == nil {
		return ctx, nil
	}
	return o.config.Tracer.Begin(ctx, name, about...)
}

func finish(s Span, failed string, about ...Attribute) {
	if s != nil {
		s.End(failed, about...)
	}
}

func (s Summary) attributes() []Attribute {
	all := []Attribute{Number("reads", int64(s.Reads)), Number("writes", int64(s.Writes)), Number("polls", int64(s.Polls)),
		Number("retries", int64(s.Retries)), Number("steps_done", int64(s.StepsDone)), Number("steps_undone", int64(s.StepsUndone))}
	if s.VMID != 0 {
		all = append(all, Number("pve.vmid", int64(s.VMID)))
	}
	if s.Node != "" {
		all = append(all, Text("pve.node", s.Node))
	}
	for kind, waited := range s.Waited {
		if waited > 0 {
			all = append(all, Number("wait_"+Kind(kind).String()+"_ms", waited.Milliseconds()))
		}
	}
	return all
}
