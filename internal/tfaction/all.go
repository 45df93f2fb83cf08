// Package tfaction has the actions, which Terraform 1.14 and later invoke: what is done to a VM once, and leaves no trace in any state.
// Each is a schema, a plan that refuses what can never work, and one call of the package that does it.
package tfaction

import "github.com/hashicorp/terraform-plugin-framework/action"

// All lists the actions.
func All() []func() action.Action {
	return []func() action.Action{NewVMPower, NewVMUnlock, NewVMSnapshotRollback, NewOrphanDelete}
}
