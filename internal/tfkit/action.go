package tfkit

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"
)

// ActionBase is embedded by every action; it takes the Session.
type ActionBase struct{ Session *Session }

// Configure takes the Session of the configured provider. Terraform also calls it before that, without one.
func (b *ActionBase) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	session, ok := req.ProviderData.(*Session)
	b.Session = session
	if !ok && req.ProviderData != nil {
		resp.Diagnostics.Append(wrongSession(fmt.Sprintf("%T", req.ProviderData)))
	}
}

// Do does what an action is about, within its time: requests asks the server, and what it says by Inform the user is shown. It is not
// called where there is an error already or the server cannot be asked yet. Its error becomes a diagnostic of the attempt.
func (b *ActionBase) Do(ctx context.Context, resp *action.InvokeResponse, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	ctx = withProgress(ctx, func(text string) { resp.SendProgress(action.InvokeProgressEvent{Message: text}) })
	b.Session.do(ctx, &resp.Diagnostics, within, a, requests)
}
