# A unit for stacks: what the stack says of it is in values.
include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "${dirname(find_in_parent_folders("root.hcl"))}/../catalog//vm"
}

inputs = {
  name    = values.name
  tags    = values.tags
  address = values.address
}
