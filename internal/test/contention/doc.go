// Package contention proves that parallel runs and third parties lose nothing, whatever they do between two requests.
package contention
