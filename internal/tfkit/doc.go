// Package tfkit holds what any resource or data source needs: the session of a configured provider, the one converter from
// errors to diagnostics (Diagnose), timeouts, validators of PVE's names, attributes of data sources and the bridge to
// Terraform's log.
package tfkit
