// Package story plays drawn stories: a world, some configurations, and what users and third parties do with them. An
// oracle that knows the simulator's volumes and its log, and nothing of the provider, judges after each act.
//
// It asks whether the data of third parties are unchanged, and where they left them; whether data of the user went that
// no plan and no message named; whether a guest went off, or started, without a word; whether a plan has written;
// whether the plan after an apply is empty; whether anything is left after the last destroy that no message named; and
// whether each error says how to go on. An act that no look could have shown before the harmful request is not counted.
package story
