// Package plan is the one mechanism that makes a plan of a configuration and a prior state, and a state of a plan and
// the server's answer. A Shape does so attribute by attribute, by the same rules for every resource whose attributes
// are both optional and computed.
package plan
