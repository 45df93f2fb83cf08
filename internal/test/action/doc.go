// Package action proves the promises of the actions: power, unlock, and the removal of orphans.
package action
