// Package plan proves that plans are true: no drift after an apply, refusals before it, and changes that send only
// themselves.
package plan
