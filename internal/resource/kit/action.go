package kit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/action"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog"
	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/framework/oplog/interceptor"
)

// ActionBase is embedded by every action. It holds the Session.
type ActionBase struct{ Session *Session }

// Configure takes the Session of the configured provider. Terraform also calls it before that, without one.
func (b *ActionBase) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	session, ok := req.ProviderData.(*Session)
	b.Session = session
	if !ok && req.ProviderData != nil {
		resp.Diagnostics.Append(wrongSession(fmt.Sprintf("%T", req.ProviderData)))
	}
}

// progress sends lines to the user who waits for an action, one at a time, and none after its end.
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

// Do carries an action out within its time limit. The user sees the lines that requests writes by Inform, and every
// half minute what it waits for. Do does not call requests if there is an error already, or if the server is not known
// yet. The error of requests becomes a diagnostic of the attempt.
func (b *ActionBase) Do(ctx context.Context, resp *action.InvokeResponse, within time.Duration, a Attempt,
	requests func(context.Context) error,
) {
	told := &progress{send: resp.SendProgress}
	defer told.end()
	oplog.From(ctx).Tell(told.tell)
	ctx = interceptor.WithProgress(ctx, told.tell)
	b.Session.do(ctx, &resp.Diagnostics, within, a, requests)
}
