include "root" {
  path = find_in_parent_folders("root.hcl")
}

terraform {
  source = "../../../catalog//vm"
}

inputs = {
  name    = "db-1"
  tags    = ["db"]
  address = "10.0.0.53/24"
  cores   = 4
  memory  = 8192
  disk    = "40G"
}
