// Package tfkit holds what the tf* packages share: the session of a configured provider, the one mechanism that turns
// configuration and prior state into a plan (Shape), the one converter from errors to diagnostics (Diagnose), timeouts,
// validators and the bridge to Terraform's log.
package tfkit
