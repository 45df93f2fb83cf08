// Package cost holds the provider to its budgets: requests, listings and questions to guest agents.
package cost
