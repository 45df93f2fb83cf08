package power

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// Do carries an action out. It logs its progress.
func (s *Switch) Do(ctx context.Context, r Request) ([]guest.Warning, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	u := &run{Switch: s, Request: r, end: s.jobs.Clock.Now().Add(r.Timeout)}
	err := u.look(ctx)
	if err == nil {
		err = u.act()(ctx)
	}
	return u.warnings, err
}

// act is the function of the action.
func (r *run) act() func(context.Context) error {
	switch r.Action {
	case Start:
		return r.start
	case Shutdown:
		return r.shutDown
	case Stop:
		return r.stop
	case Reboot:
		return r.reboot
	case Reset:
		return r.reset
	case Suspend:
		return r.suspend
	case Resume:
		return r.resume
	}
	return func(context.Context) error { return fmt.Errorf("there is no action %q", r.Action) }
}
