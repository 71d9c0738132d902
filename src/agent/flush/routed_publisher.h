// Files that were written through Kedge, at their own paths: once the version of their image is in the store.
#pragma once

#include <memory>

#include "agent/tables/image.h"
#include "restore/file_publisher.h"

namespace kedge {

class AgentCore;
class ImageTable;
class LocalRetention;

class RoutedPublisher {
 public:
  RoutedPublisher(AgentCore& core, ImageTable& images, LocalRetention& retention);

  // Those of an image that is in the store, once: where there are none, unless it is of the newest attempt.
  void Publish(Image& image);
  // Those of versions that are in the store, which a dead predecessor had not come to.
  void PublishOwed();

 private:
  void PublishLater(const Image& image, const Status& why);

  AgentCore& core_;
  ImageTable& images_;
  LocalRetention& retention_;
  const std::shared_ptr<FilePublisher> publisher_;
};

}  // namespace kedge
