package interceptor

import (
	"context"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// InvokeAction carries an action out. The operation ends when the caller has taken the last event.
func (s *server) InvokeAction(ctx context.Context,
	req *tfprotov6.InvokeActionRequest) (*tfprotov6.InvokeActionServerStream, error) {
	within, o := s.begin(ctx, "invoke", "action."+req.ActionType)
	stream, err := s.Backend.InvokeAction(within, req)
	if err != nil || stream == nil {
		s.close(within, o, nil, err)
		return stream, err
	}
	events := stream.Events
	stream.Events = func(push func(tfprotov6.InvokeActionEvent) bool) {
		var said []*tfprotov6.Diagnostic
		closed := false
		finish := func() {
			if !closed {
				closed = true
				s.close(within, o, said, nil)
			}
		}
		defer finish()
		for event := range events {
			if completed, ok := event.Type.(tfprotov6.CompletedInvokeActionEventType); ok {
				said = completed.Diagnostics
				finish() // before the event, so that the error in it can name the operation
			}
			if !push(event) {
				return
			}
		}
	}
	return stream, nil
}

// ListResource lists resources. The operation ends when the caller has taken the last result.
func (s *server) ListResource(ctx context.Context,
	req *tfprotov6.ListResourceRequest) (*tfprotov6.ListResourceServerStream, error) {
	within, o := s.begin(ctx, "list", req.TypeName)
	stream, err := s.Backend.ListResource(within, req)
	if err != nil || stream == nil {
		s.close(within, o, nil, err)
		return stream, err
	}
	results := stream.Results
	stream.Results = func(push func(tfprotov6.ListResourceResult) bool) {
		var said []*tfprotov6.Diagnostic
		defer func() { s.close(within, o, said, nil) }()
		for result := range results {
			said = append(said, result.Diagnostics...)
			if !push(result) {
				return
			}
		}
	}
	return stream, nil
}
