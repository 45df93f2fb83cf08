package tfkit

import (
	"context"
	"fmt"

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
