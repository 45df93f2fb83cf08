package power

import (
	"context"
	"fmt"

	"github.com/terraform-proxmox/terraform-provider-proxmox/internal/guest"
)

// Do carries an action out. What it says on the way goes to the log of the jobs.
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

// act is what is to be done.
func (u *run) act() func(context.Context) error {
	switch u.Action {
	case Start:
		return u.start
	case Shutdown:
		return u.shutDown
	case Stop:
		return u.stop
	case Reboot:
		return u.reboot
	case Reset:
		return u.reset
	case Suspend:
		return u.suspend
	case Resume:
		return u.resume
	}
	return func(context.Context) error { return fmt.Errorf("there is no action %q", u.Action) }
}
