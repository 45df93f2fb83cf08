// Package tfplan is the one mechanism that turns configuration and prior state into a plan, and a plan and what the server
// says into a state: Shape, attribute by attribute, by the same rules for every resource whose attributes are both optional
// and computed.
package tfplan
