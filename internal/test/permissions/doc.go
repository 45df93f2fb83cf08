// Package permissions proves that the documented role is enough, that each privilege is needed, and that no secret is
// told.
package permissions
