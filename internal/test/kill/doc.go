// Package kill ends the provider at each request of each operation and applies again.
package kill
