// Package destroy proves that a destroy removes its own VM and nothing else, and names whatever it leaves.
package destroy
