package provision

import (
	"context"
	"fmt"
)

// regroup moves a VM from one pool to another.
func (s *Service) regroup(ctx context.Context, vmid int, from, to string) error {
	if from == to {
		return nil
	}
	if from != "" {
		if err := s.api.RemoveFromPool(ctx, from, vmid); err != nil {
			return &FieldError{Path: "pool", Summary: fmt.Sprintf("Cannot take VM %d out of pool %s", vmid, from), Detail: "It is still a member", Err: err}
		}
	}
	if to != "" {
		if err := s.api.AddToPool(ctx, to, vmid); err != nil {
			return &FieldError{Path: "pool", Summary: fmt.Sprintf("Cannot put VM %d into pool %s", vmid, to), Detail: "It is in no pool now", Err: err}
		}
	}
	return nil
}
