package interceptor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// screen is the outermost server: every text that the user sees passes through it. Third parties write texts of the
// server, of guests and of SSH, and Terraform prints what it gets: with an escape sequence in the description of a VM,
// its author could clear the screen and show a success. screen embeds nothing, so a new call of the protocol does not
// compile until it has a method here.
type screen struct{ behind Backend }

// clean writes control characters, those that turn the direction of a line, and bytes that are no UTF-8 as \x1b and
// \u202e. Line breaks and tabs stay.
func clean(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, isHidden) < 0 {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case isHidden(r) && r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case isHidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		text = text[size:]
	}
	return b.String()
}

// isHidden reports whether a terminal obeys a character instead of showing it.
func isHidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) ||
		r == '\u2028' || r == '\u2029')
}

// cleanAll cleans diagnostics in place.
func cleanAll(said []*tfprotov6.Diagnostic) {
	for _, d := range said {
		d.Summary, d.Detail = clean(d.Summary), clean(d.Detail)
	}
}

// cleanError cleans the error of a call, which Terraform prints too.
func cleanError(err error) error {
	if err == nil || clean(err.Error()) == err.Error() {
		return err
	}
	return errors.New(clean(err.Error()))
}

// screened has a request answered, and cleans what the answer says.
func screened[Request, Response any](ctx context.Context, req *Request, answer func(context.Context,
	*Request) (*Response, error), said func(*Response) []*tfprotov6.Diagnostic) (*Response, error) {
	resp, err := answer(ctx, req)
	if resp != nil {
		cleanAll(said(resp))
	}
	return resp, cleanError(err)
}

// StopProvider ends what is under way.
func (s *screen) StopProvider(ctx context.Context, req *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse,
	error) {
	resp, err := s.behind.StopProvider(ctx, req)
	if resp != nil {
		resp.Error = clean(resp.Error)
	}
	return resp, cleanError(err)
}

// CallFunction computes a function.
func (s *screen) CallFunction(ctx context.Context, req *tfprotov6.CallFunctionRequest) (*tfprotov6.CallFunctionResponse,
	error) {
	resp, err := s.behind.CallFunction(ctx, req)
	if resp != nil && resp.Error != nil {
		resp.Error.Text = clean(resp.Error.Text)
	}
	return resp, cleanError(err)
}

// InvokeAction carries an action out.
func (s *screen) InvokeAction(ctx context.Context,
	req *tfprotov6.InvokeActionRequest) (*tfprotov6.InvokeActionServerStream, error) {
	stream, err := s.behind.InvokeAction(ctx, req)
	if err != nil || stream == nil {
		return stream, cleanError(err)
	}
	events := stream.Events
	stream.Events = func(push func(tfprotov6.InvokeActionEvent) bool) {
		for event := range events {
			switch typ := event.Type.(type) {
			case tfprotov6.ProgressInvokeActionEventType:
				typ.Message = clean(typ.Message)
				event.Type = typ
			case tfprotov6.CompletedInvokeActionEventType:
				cleanAll(typ.Diagnostics)
			}
			if !push(event) {
				return
			}
		}
	}
	return stream, nil
}

// ListResource lists resources.
func (s *screen) ListResource(ctx context.Context,
	req *tfprotov6.ListResourceRequest) (*tfprotov6.ListResourceServerStream, error) {
	stream, err := s.behind.ListResource(ctx, req)
	if err != nil || stream == nil {
		return stream, cleanError(err)
	}
	results := stream.Results
	stream.Results = func(push func(tfprotov6.ListResourceResult) bool) {
		for result := range results {
			result.DisplayName = clean(result.DisplayName)
			cleanAll(result.Diagnostics)
			if !push(result) {
				return
			}
		}
	}
	return stream, nil
}
