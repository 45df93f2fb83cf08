// Package combination draws changes of a VM that do several things at once, and disturbs them.
package combination
