package pve

import "context"

// Note hands a line of its user to the same log as the requests, after a last look for secrets: what is waited for, and why.
func (c *Client) Note(ctx context.Context, msg string, fields map[string]string) { c.log(ctx, msg, fields) }
