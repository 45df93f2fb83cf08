package tfkit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/account"
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

// progress is what a user is told who waits for an action, in turn, and no more once it is over.
type progress struct {
	mu   sync.Mutex
	send func(action.InvokeProgressEvent) // nil when it is over
}

func (p *progress) tell(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.send != nil {
		p.send(action.InvokeProgressEvent{Message: text})
	}
}

func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.send = nil
}

// Do does what an action is about, within its time: requests asks the server, and what it says by Inform, and every
// half minute what it waits for, the user is shown. It is not
// called where there is an error already or the server cannot be asked yet. Its error becomes a diagnostic of the attempt.
func (b *ActionBase) Do(ctx context.Context, resp *action.InvokeResponse, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	told := &progress{send: resp.SendProgress}
	defer told.end()
	account.From(ctx).Tell(told.tell)
	ctx = withProgress(ctx, told.tell)
	b.Session.do(ctx, &resp.Diagnostics, within, a, requests)
}
