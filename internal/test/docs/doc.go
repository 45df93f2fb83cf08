// Package docs applies everything that the documentation shows: examples, guides, the reference and releases.
package docs
