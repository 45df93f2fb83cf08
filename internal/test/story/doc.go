// Package story plays drawn stories: a world, some configurations, and what users and third parties do with them. An
// oracle that knows the simulator's volumes and its log, and nothing of the provider, judges after each act.
package story
