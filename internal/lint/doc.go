// Package lint finds keys that the provider does not know in Terraform configurations.
//
// Terraform refuses an unknown argument of a block. In the value of an attribute it drops an unknown key of an object
// before the provider receives the value, and says nothing. Only the text of the configuration still has the key.
//
// The package reads that text and compares it with the schema. It follows values that stand somewhere else in the text:
// locals, variables with their defaults and the arguments of module calls, merge, for and the like. It does not
// evaluate anything. A value that it cannot follow is counted and not judged. A key that the configuration may read
// elsewhere is not judged either, so each finding is an error in the configuration.
package lint
