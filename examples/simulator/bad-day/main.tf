# The module of ../web on a bad day. The simulator is started with the faults that are to happen, then tests/ is run:
#
#   make sim ARGS="--world examples/simulator/world.yaml --faults examples/simulator/bad-day/faults.json" > sim.json &
#
# The first start of a VM fails; the second clone is made, but its answer is lost.
variable "name" {
  type = string
}

module "web" {
  source = "../web"
  name   = var.name
}

output "vmid" {
  value = module.web.vmid
}
